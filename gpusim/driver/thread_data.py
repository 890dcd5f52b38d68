"""Data of a thread that lasts as long as the thread, whoever started it."""

from __future__ import annotations

import ctypes
import threading


class ThreadData(threading.local):
    """``threading.local`` for threads that a program starts by itself, through the C library. Python forgets what it
    knows of such a thread as soon as a call from it returns: unless there is one more call that never does."""

    def __init__(self) -> None:
        ctypes.pythonapi.PyGILState_Ensure()
