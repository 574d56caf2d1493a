"""All that a plugin may import from gipper."""

from __future__ import annotations

from gipper import wire
from gipper.context import HttpSession, ProviderContext
from gipper.countries import country_code
from gipper.errors import (
    BadHost,
    CommandTimeout,
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
from gipper.gpus import GpuName, gpu_model, memory_as_sold
from gipper.gpus import known as known_gpu
from gipper.gpus import parse as parse_gpu_name
from gipper.http import json_of
from gipper.http_errors import HttpLost, HttpStatus, HttpUnsent, NotJson
from gipper.markers import hookimpl
from gipper.money import usd
from gipper.remote import Completed, Remote
from gipper.runtime import Event, Runtime, Task
from gipper.values.bills import Account, Bill, BillKind, Diagnosis, KeyCheck, Leftover, Watchdog
from gipper.values.estimates import CostAdjustment, Phases
from gipper.values.jobs import Job, Probe
from gipper.values.machines import Address, Machine, MachineState, Port, RentRequest
from gipper.values.offers import GpuModel, Listing, Offer, OfferQuery
from gipper.values.plugins import API_VERSION, BaseUrl, CheckResult, ProviderInfo
from gipper.values.receipts import Receipt
from gipper.watchdog import boot_watchdog

__all__ = [
    "API_VERSION",
    "Account",
    "Address",
    "BadHost",
    "BaseUrl",
    "Bill",
    "BillKind",
    "CheckResult",
    "CommandTimeout",
    "Completed",
    "ConfigError",
    "CostAdjustment",
    "Diagnosis",
    "Doubtful",
    "Event",
    "GipperError",
    "GpuModel",
    "GpuName",
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
    "Probe",
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
    "boot_watchdog",
    "country_code",
    "gpu_model",
    "hookimpl",
    "json_of",
    "known_gpu",
    "memory_as_sold",
    "parse_gpu_name",
    "usd",
    "wire",
]
