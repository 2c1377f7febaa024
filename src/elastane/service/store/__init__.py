"""The store remembers jobs, what happened, what was decided and who may ask."""

from elastane.service.store.errors import StaleControlPlane, StoreError
from elastane.service.store.rows import Decision, JobRow
from elastane.service.store.store import Store, Transaction

__all__ = ["Decision", "JobRow", "StaleControlPlane", "Store", "StoreError", "Transaction"]
