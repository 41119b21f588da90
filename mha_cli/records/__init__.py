"""Bytes to records: plain lines, JSON lines, tables, fastText lines, Parquet, as generators that know no files."""
