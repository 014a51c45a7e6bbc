"""Evidence as Parquet files with a manifest."""
