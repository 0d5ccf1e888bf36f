# SPDX-License-Identifier: Apache-2.0
"""A minimal replacement of `concurrent.futures.Future`, without the cost of importing that module."""

from typing import TYPE_CHECKING

__all__ = ["Future"]

if TYPE_CHECKING:
    from concurrent.futures import Future
else:
    import threading
    from types import GenericAlias

    class Future:
        """A result or an error, set once by one thread and awaited by others."""

        def __init__(self):
            self._changed = threading.Condition()
            self._done = False
            self._result = self._error = None
            self._callbacks = []

        def done(self):
            return self._done

        def result(self, timeout=None):
            error = self.exception(timeout)
            if error is not None:
                raise error
            return self._result

        def exception(self, timeout=None):
            with self._changed:
                if not self._changed.wait_for(lambda: self._done, timeout):
                    raise TimeoutError
                return self._error

        def set_result(self, result):
            self._finish(result, None)

        def set_exception(self, error):
            self._finish(None, error)

        def _finish(self, result, error):
            with self._changed:
                self._result, self._error, self._done = result, error, True
                callbacks, self._callbacks = self._callbacks, []
                self._changed.notify_all()
            for call in callbacks:
                call(self)

        def add_done_callback(self, call):
            """Call a function when the future is done, on the completing thread, or immediately if it is done already."""
            with self._changed:
                if not self._done:
                    self._callbacks.append(call)
                    return
            call(self)

        __class_getitem__ = classmethod(GenericAlias)
