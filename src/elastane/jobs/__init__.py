"""Job specifications, their validation, and the life of a job."""
