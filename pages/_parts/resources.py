"""The only caches of the pages: the open store, the views and the backbone of a home. Rows are never cached."""

from __future__ import annotations

import streamlit as st

from core import config as configuration
from core.acts import judge
from core.backbone.base import Backbone
from core.config import Config
from core.ledger.ledger import VerifyReport, verify
from core.ledger.store import Store, open_workspace
from core.views.read.standing import Standing
from core.views.read.standing import standing as standing_of
from core.views.views import Views


@st.cache_resource(show_spinner=False, max_entries=4, on_release=Views.close)
def _views(home: str, _config: Config) -> Views:
    return Views(_config)


@st.cache_resource(show_spinner=False, max_entries=4, on_release=Store.close)
def _store(home: str, file: int, _config: Config) -> Store:
    return open_workspace(_config)


@st.cache_resource(show_spinner=False, max_entries=2)
def _backbone(cache: str, name: str, device: str, _config: Config) -> Backbone:
    return judge.open_backbone(_config)


def config() -> Config:
    """Return what the process was told about its surroundings; read anew, for it costs nothing."""
    return configuration.load()


def views(settings: Config) -> Views:
    """Return the views of a home, opened once a process."""
    return _views(str(settings.home), settings)


def store(settings: Config) -> Store:
    """Return the store of a home, opened once a file: a workspace that was made anew is another file.

    Raises
    ------
    StoreError : there is none, or it cannot be read.
    """
    file = settings.store.stat().st_ino if settings.store.exists() else 0
    return _store(str(settings.home), file, settings)


def backbone(settings: Config) -> Backbone:
    """Return the frozen backbone; its weights are read when they are first needed.

    Raises
    ------
    MissingPackage : its package is not installed.
    """
    return _backbone(str(settings.cache), settings.backbone, settings.device, settings)


@st.cache_resource(show_spinner=False, max_entries=4)
def _standing(home: str, stamp: str, _config: Config) -> Standing:
    return standing_of(_config)


def standing(settings: Config, stamp: str) -> Standing:
    """Return what the newest complete run establishes, counted once a state of the store and its trace files.

    Parameters
    ----------
    stamp : `Snapshot.stamp`.

    Raises
    ------
    DuebookError : its files are missing or damaged.
    """
    return _standing(str(settings.home), stamp, settings)


@st.cache_resource(show_spinner=False, max_entries=4, ttl=30)
def _verified(home: str, as_of: int, _store: Store) -> VerifyReport:
    return verify(_store)


def verified(settings: Config, as_of: int, store: Store) -> VerifyReport:
    """Return whether the ledger verifies; walked again after half a minute, or at the next entry."""
    return _verified(str(settings.home), as_of, store)
