# SPDX-License-Identifier: Apache-2.0
"""Fast path: stage publications of a common layout from one scan of their bytes (`wire.push_scan`).

It stops before the first message that the scan refuses. `Push.read` decodes or rejects that one. The rows must be equal either way:
tests/columns/test_push_fast_path.py compares both on valid and invalid messages.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.columns.samples_builder import MAX_STAGED_BYTES, as_signed
from cython.cimports.zenlake.wire.push_scan import OTHER, PushFields, scan_push
from cython.cimports.zenlake.wire.raw_memory import fetch_ahead

PREFETCH_DISTANCE = cython.declare(cython.Py_ssize_t, 2048)  # prefetch distance in bytes


def decode_push(samples, data, at, end, direction, max_count):
    """Stage at most `max_staged` common messages from `at` on. Return the offset of the first other message."""
    first: cython.Py_ssize_t = samples.row - samples.first_staged
    i: cython.Py_ssize_t = first
    last: cython.Py_ssize_t = min(samples.max_staged, first + max_count)
    begin: cython.Py_ssize_t = at
    stop: cython.Py_ssize_t = min(end, at + MAX_STAGED_BYTES - samples.bytes)
    push = cython.declare(PushFields)
    if not cython.compiled:
        push = PushFields()
    while i < last and at < stop:
        fetch_ahead(data, at + PREFETCH_DISTANCE)
        next_at: cython.Py_ssize_t = scan_push(data, at, end, cython.address(push) if cython.compiled else push)
        if next_at == OTHER or push.has_more or not push.is_put:
            break
        stage_push(samples, i, at, cython.address(push) if cython.compiled else push, direction)
        samples.staged.message[i] = next_at - at
        at = next_at
        i += 1
    samples.row += i - first
    samples.bytes += at - begin  # an estimate, more than their payloads
    samples.data = data
    return at


def stage_push(samples, i, at, push, direction):
    """Stage the fields of a publication at `at` as row `i`. Absent ranges are already marked."""
    by_acceptor: cython.bint = (direction != 0) == (push.sender != 0)
    samples.staged.scope[i] = -push.scope if by_acceptor else push.scope
    samples.staged.qos_and_kind[i] = push.qos
    samples.staged.ntp64[i] = as_signed(push.ntp64)
    samples.staged.encoding[i] = push.encoding
    samples.stamps.stage(i, at + push.clock_at, push.clock_size)
    samples.payloads.stage(i, at + push.payload_at, push.payload_size)
    samples.suffixes.stage(i, at + push.suffix_at, push.suffix_size)
    samples.schemas.stage(i, at + push.schema_at, push.schema_size)
    samples.attachments.stage(i, at + push.attachment_at, push.attachment_size)
    if push.source_size >= 0:
        samples.sources.stage(i, at + push.source_at, push.source_size)
        samples.staged.eid[i] = push.eid
        samples.staged.sn[i] = push.sn


def decode_push_messages(messages, samples, count, index, opener, acceptor):
    """Write rows of `messages` for the last staged ones, numbered from `index` on."""
    row: cython.Py_ssize_t = messages.row
    i: cython.Py_ssize_t = samples.row - samples.first_staged - count
    scope: cython.int
    messages.row = row + count
    messages.index.count(row, row + count, index)
    messages.types.fill(messages.type, row, row + count, message_ids.PUSH)
    messages.bodies.fill(messages.body, row, row + count, message_ids.PUT)
    messages.unknown_exts.fill(row, row + count, 0)
    while row < messages.row:
        scope = samples.staged.scope[i]
        if scope >= 0:
            messages.put_key(
                row, opener, scope, samples.data, samples.staged.suffix.at[i], samples.staged.suffix.size[i]
            )
        else:
            messages.put_key(
                row, acceptor, -scope, samples.data, samples.staged.suffix.at[i], samples.staged.suffix.size[i]
            )
        messages.size_column.put(row, samples.staged.message[i])
        messages.payload_size.put(row, samples.staged.payload.size[i])
        messages.qos.put(row, samples.staged.qos_and_kind[i])
        row += 1
        i += 1
    return 0
