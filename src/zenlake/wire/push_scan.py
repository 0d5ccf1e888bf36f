# SPDX-License-Identifier: Apache-2.0
"""Scan of publications: the fields of a PUSH with a PUT or DEL in one pass over its bytes, into one C struct.

`Push.read` decodes every layout field by field and names the invalid field. The scan accepts the layouts that publishers send, in a
fifth of the time, and refuses every other message. It creates no object. The decoder of columns, the samples of subscribers, the
dispatcher and the planning pass of captures use it. A message that it refuses is left to `Push.read`. Tests compare both.

Safety: the fields before the payload are read without a comparison with the end. At least AHEAD bytes are readable at each place
where they are not compared. Near the end of a batch, a copy with zeros behind it is scanned.
"""

from functools import partial
from types import SimpleNamespace

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.raw_memory import copy, eight_bytes, join_sevens, short_vle

if not cython.compiled:
    # Compiled: C constants and a struct, documented in the .pxd.
    OTHER = -1
    AHEAD = 48
    TAIL = 192
    PushFields = partial(SimpleNamespace, suffix_at=0, clock_at=0, schema_at=0, source_at=0, attachment_at=0)

# The highest bit of each byte: continuation of a VLE, or not ASCII in a text.
HIGHEST = cython.declare(cython.ulonglong, 0x8080808080808080)
NINTH = cython.declare(cython.ulonglong, 0xFF00000000000000)


def scan_end(data, at, end, push):
    """Scan the message at `at` near the end of a batch, in a copy with zeros behind it."""
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = end - at
    tail = cython.declare(cython.uchar[240])  # TAIL + AHEAD
    if size > TAIL:
        return OTHER
    if cython.compiled:
        copy(tail, 0, data, at, size)
        for i in range(size, size + AHEAD):
            tail[i] = 0
    else:
        tail = bytes(data[at:end]) + bytes(AHEAD)
    beyond: cython.Py_ssize_t = scan_fields(tail, 0, size, size, push)
    return beyond if beyond == OTHER else at + beyond


def scan_fields(data, at, end, safe, push):
    """Scan a message. Up to `safe`, AHEAD bytes are readable. Each function returns the offset of the next field, or OTHER."""
    start: cython.Py_ssize_t = at
    header: cython.int = data[at]
    number: cython.longlong = short_vle(data, at + 1)
    if number < 0 or number >> 3 > 0xFFFF:
        return OTHER
    push.scope = number >> 3
    push.sender = header & message_ids.SENDERS != 0
    push.has_more = False
    at += 1 + (number & 7)
    push.suffix_size = -1
    if header & message_ids.SUFFIX:
        number = short_vle(data, at)
        at += number & 7
        if number < 0 or number >> 3 > 0xFFFF or number >> 3 > end - at:
            return OTHER
        push.suffix_at = at - start
        push.suffix_size = number >> 3
        at = skip_ascii(data, at, at + push.suffix_size)
        if at == OTHER or at > safe:
            return OTHER
    push.qos = message_ids.QOS_DEFAULT
    if header & message_ids.Z:
        if data[at] == message_ids.EXT_QOS and data[at + 1] < 0x80:
            push.qos = data[at + 1]
            at += 2
        else:
            at = scan_push_exts(data, at, end, safe, push)
            if at == OTHER:
                return OTHER
    header = data[at]
    push.is_put = header & message_ids.KIND == message_ids.PUT
    if not push.is_put and header & (message_ids.KIND | message_ids.ENCODED) != message_ids.DEL:
        return OTHER
    at += 1
    push.ntp64 = 0
    push.clock_size = -1
    if header & message_ids.STAMPED:  # nine VLE bytes of time (until the year 2106), then the clock id
        push.clock_at = at + 10 - start
        push.clock_size = data[at + 9]
        push.ntp64 = join_sevens(eight_bytes(data, at)) | (eight_bytes(data, at + 1) & NINTH)
        if eight_bytes(data, at) & HIGHEST != HIGHEST or not 1 <= push.clock_size <= 16 or data[at + 10] == 0:
            return OTHER
        at += 10 + push.clock_size
    push.encoding = 0
    push.schema_size = -1
    push.source_size = -1
    push.attachment_size = -1
    if header & (message_ids.ENCODED | message_ids.Z):
        at = scan_body(data, at, end, safe, push, start, header)
        if at == OTHER:
            return OTHER
    push.payload_size = -1
    if not push.is_put:
        return at if at <= end else OTHER
    number = short_vle(data, at)
    at += number & 7
    if number < 0 or number >> 3 > end - at:
        return OTHER
    push.payload_at = at - start
    push.payload_size = number >> 3
    return at + push.payload_size


def skip_ascii(data, at, end):
    """Skip a text. A text that is not ASCII is checked for UTF-8 elsewhere."""
    while at + 8 <= end:
        if eight_bytes(data, at) & HIGHEST:
            return OTHER
        at += 8
    while at < end:
        if data[at] >= 0x80:
            return OTHER
        at += 1
    return at


def scan_push_exts(data, at, end, safe, push):
    """Scan the extensions of a PUSH that has not only QoS."""
    header: cython.int = message_ids.Z
    while header & message_ids.Z:
        header = data[at]
        if header & ~message_ids.Z == message_ids.EXT_QOS and data[at + 1] < 0x80:
            push.qos = data[at + 1]
            at += 2
        else:
            push.has_more = True
            at = skip_ext(data, at, end)
        if at == OTHER or at > safe:
            return OTHER
    return at


def skip_ext(data, at, end):
    """Skip one extension."""
    header: cython.int = data[at]
    i: cython.Py_ssize_t
    at += 1
    if header & message_ids.ENC == message_ids.ENC_UNIT:
        return at
    if header & message_ids.ENC == message_ids.ENC_Z64:
        for i in range(at, at + 9):  # the ninth byte has no continuation bit
            if data[i] < 0x80:
                return i + 1
        return at + 9
    number: cython.longlong = short_vle(data, at)
    at += number & 7
    if header & message_ids.ENC != message_ids.ENC_ZBUF or number < 0 or number >> 3 > end - at:
        return OTHER
    return at + (number >> 3)


def scan_body(data, at, end, safe, push, start, header):
    """Scan the encoding and the extensions of a PUT or DEL."""
    number: cython.longlong
    attachment: cython.int = message_ids.EXT_PUT_ATTACHMENT if push.is_put else message_ids.EXT_DEL_ATTACHMENT
    kind: cython.int
    if header & message_ids.ENCODED:
        number = short_vle(data, at)
        if number < 0:
            return OTHER
        at += number & 7
        push.encoding = number >> 4
        if number & 8:
            if data[at] >= 0x80:
                return OTHER
            push.schema_at = at + 1 - start
            push.schema_size = data[at]
            at += 1 + data[at]
    while header & message_ids.Z:
        if at > safe:
            return OTHER
        header = data[at]
        kind = header & ~message_ids.Z
        if kind == message_ids.EXT_SOURCE or kind == attachment:
            number = short_vle(data, at + 1)
            at += 1 + (number & 7)
            if number < 0 or number >> 3 > end - at:
                return OTHER
            if kind == attachment:
                push.attachment_at = at - start
                push.attachment_size = number >> 3
            elif scan_source(data, at, push, start) != at + (number >> 3):
                return OTHER
            at += number >> 3
        elif kind == message_ids.EXT_SHM and push.is_put:  # the payload is a list of slices
            return OTHER
        else:
            push.has_more = True
            at = skip_ext(data, at, end)
            if at == OTHER:
                return OTHER
    return OTHER if at > safe else at


def scan_source(data, at, push, start):
    size: cython.int = 1 + (data[at] >> 4)
    eid: cython.longlong = short_vle(data, at + 1 + size)
    if data[at + 1] == 0 or eid < 0:
        return OTHER
    push.source_at = at + 1 - start
    push.source_size = size
    at += 1 + size + (eid & 7)
    sn: cython.longlong = short_vle(data, at)
    if sn < 0:
        return OTHER
    push.eid = eid >> 3
    push.sn = sn >> 3
    return at + (sn & 7)


if not cython.compiled:  # compiled: inline, in the .pxd

    def scan_push(data, at, end, push):
        """Scan the message at `at`. Return the offset of the next message, or OTHER if it is not in a common layout."""
        if at >= end or data[at] & message_ids.KIND != message_ids.PUSH:
            return OTHER
        beyond = scan_fields(data, at, end, end - AHEAD, push) if at + AHEAD <= end else OTHER
        return scan_end(data, at, end, push) if beyond == OTHER else beyond

    def scan_key_id(data, at, end):
        """Return twice the key id of the PUSH at `at`, plus 1 if its sender declared it. Return OTHER if it has another key."""
        if end - at < 5 or data[at] & (message_ids.KIND | message_ids.SUFFIX) != message_ids.PUSH:
            return OTHER
        number = short_vle(data, at + 1)
        return OTHER if number < 0 else (number >> 3) * 2 + (data[at] & message_ids.SENDERS != 0)
