"""PySpark jobs that turn original files into events, stages before matching, and their Spark session."""

from cepkit.pipelines.ingest import (
    FORMATS,
    QualityReport,
    ingest,
    quality_report_text,
    read_events,
    read_quarantine,
    read_report,
)
from cepkit.pipelines.spark_session import spark_session, worker_python
from cepkit.pipelines.stages import frequent_tags, hashtags, parse_tweets, tag_code, tag_mask

__all__ = [
    "FORMATS", "QualityReport", "frequent_tags", "hashtags", "ingest", "parse_tweets",
    "quality_report_text", "read_events", "read_quarantine", "read_report", "spark_session", "tag_code",
    "tag_mask", "worker_python",
]  # fmt: skip
