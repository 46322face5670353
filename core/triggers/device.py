"""Where torch computes, and with how many threads.

On two busy cores the default thread count turns a 0.09 ms decision into one of 15.5 ms: every process that uses torch
calls `single_thread()` first and takes its second core by processes. The paper's trigger needs neither: it
computes without torch (see `learned/mlp.py`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from core.errors import InputError, MissingPackage, quoted

if TYPE_CHECKING:
    import torch


def single_thread() -> None:
    """Set torch's intra-op and inter-op threads to 1; call it before the first tensor.

    Raises
    ------
    MissingPackage : torch is not installed.
    """
    torch = _torch()
    torch.set_num_threads(1)
    # The inter-op count can be set once a process, and not after the first parallel work.
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(1)


def pick(device: str) -> torch.device:
    """Return the torch device for `auto`, `cpu`, `cuda` or `mps`; `auto` prefers cuda, then mps, then cpu.

    Raises
    ------
    MissingPackage : torch is not installed.
    InputError : no such device, or it is not there.
    """
    here = _torch()
    there = {"cuda": here.cuda.is_available(), "mps": here.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        device = next(name for name, ok in there.items() if ok)
    if device not in there:
        raise InputError(f"There is no device {quoted(device)}: choose auto, cpu, cuda or mps.", where="DUEBOOK_DEVICE")
    if not there[device]:
        raise InputError(
            f"The device {quoted(device)} is not available here.", where="DUEBOOK_DEVICE", next_step="Use auto or cpu."
        )
    picked: torch.device = here.device(device)
    return picked


def _torch() -> Any:
    try:
        import torch
    except ImportError as e:
        raise MissingPackage("torch is not installed.", next_step="Run `pip install torch==2.13.0`.") from e
    return torch
