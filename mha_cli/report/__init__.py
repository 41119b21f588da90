"""A run as one page; Jinja2 is known here alone."""
