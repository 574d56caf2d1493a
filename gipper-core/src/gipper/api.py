"""All that a plugin may import from gipper."""

from __future__ import annotations

from gipper.context import HttpSession, ProviderContext
from gipper.errors import (
    BadHost,
    ConfigError,
    Doubtful,
    GipperError,
    KeyMissing,
    NoCapacity,
    OfferGone,
    ProviderError,
    Refused,
    Unsuitable,
)
from gipper.gpus import gpu_model, memory_as_sold
from gipper.http_errors import HttpLost, HttpStatus, HttpUnsent, NotJson
from gipper.http_text import json_of
from gipper.markers import hookimpl
from gipper.money import usd
from gipper.remote import Completed, Remote
from gipper.runtime import Event, Runtime, Task
from gipper.values.bills import Account, Bill, Diagnosis, KeyCheck, Leftover, Watchdog
from gipper.values.estimates import CostAdjustment, Phases
from gipper.values.jobs import Job
from gipper.values.machines import Address, Machine, MachineState, Port, RentRequest
from gipper.values.offers import GpuModel, Listing, Offer, OfferQuery
from gipper.values.plugins import API_VERSION, CheckResult, ProviderInfo
from gipper.values.receipts import Receipt

__all__ = [
    "API_VERSION",
    "Account",
    "Address",
    "BadHost",
    "Bill",
    "CheckResult",
    "Completed",
    "ConfigError",
    "CostAdjustment",
    "Diagnosis",
    "Doubtful",
    "Event",
    "GipperError",
    "GpuModel",
    "HttpLost",
    "HttpSession",
    "HttpStatus",
    "HttpUnsent",
    "Job",
    "KeyCheck",
    "KeyMissing",
    "Leftover",
    "Listing",
    "Machine",
    "MachineState",
    "NoCapacity",
    "NotJson",
    "Offer",
    "OfferGone",
    "OfferQuery",
    "Phases",
    "Port",
    "ProviderContext",
    "ProviderError",
    "ProviderInfo",
    "Receipt",
    "Refused",
    "Remote",
    "RentRequest",
    "Runtime",
    "Task",
    "Unsuitable",
    "Watchdog",
    "gpu_model",
    "hookimpl",
    "json_of",
    "memory_as_sold",
    "usd",
]
