"""Pages for a browser, each one file that loads nothing."""
