"""Bytes to records: plain lines, JSON lines, tables, fastText's lines, Parquet. The readers are fed: they know no files and never wait."""
