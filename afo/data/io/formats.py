"""Formats of data files. A module of its own, so that only who reads Parquet loads pyarrow (45 MiB)."""

#: How the names of Parquet files end.
PARQUET = ".parquet"


def is_parquet(data_format: str, url: str) -> bool:
    """Whether a data file is read as Parquet; `data_format` is `data.format` of the job."""
    return data_format == "parquet" or (data_format == "auto" and url.endswith(PARQUET))
