"""Bytes to records: plain lines, JSON lines, CSV and TSV, plain or gzipped. The readers are fed: they know of no files and never wait."""
