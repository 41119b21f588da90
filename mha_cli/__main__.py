"""The command `mha`. Ctrl-C ends it at once, without a word, until `main` can answer."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not below `nohup`, where it is ignored
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from mha_cli.cli.app import main

if __name__ == "__main__":
    main()
