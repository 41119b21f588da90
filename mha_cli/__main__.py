"""The command `mha`. Ctrl-C ends it at once, without a word, until `main` can answer."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not below `nohup`, where it is ignored
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    from mha_cli.cli.app import main
except ModuleNotFoundError as error:  # Typer
    from mha_cli.cli.missing import missing_package
    from mha_cli.errors import EXIT_USAGE

    if missing := missing_package(error):
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    raise

if __name__ == "__main__":
    main()
