# SPDX-License-Identifier: Apache-2.0
"""Message ids: the low five bits of the header byte."""

import cython

if not cython.compiled:  # compiled: constants of C, in the .pxd
    Z = 0x80  # beside them in every header: extensions follow
    KIND = 0x1F  # the bits that these numbers take

    # Transport messages
    TRANSPORT_OAM = 0x00
    INIT = 0x01
    OPEN = 0x02
    CLOSE = 0x03
    KEEP_ALIVE = 0x04
    FRAME = 0x05
    FRAGMENT = 0x06
    JOIN = 0x07

    # Network messages, inside a FRAME
    NETWORK = 0x19  # the first of them
    INTEREST = 0x19
    RESPONSE_FINAL = 0x1A
    RESPONSE = 0x1B
    REQUEST = 0x1C
    PUSH = 0x1D
    SENDERS = 0x40  # in its header: the sender declared the key's id (M), a suffix follows it (N)
    SUFFIX = 0x20
    DECLARE = 0x1E
    OAM = 0x1F

    # Data messages: the bodies of PUSH, REQUEST and RESPONSE, an id space of their own
    PUT = 0x01
    ENCODED = 0x40  # in its header: an encoding (E), a timestamp (T) follows
    STAMPED = 0x20
    DEL = 0x02
    QUERY = 0x03
    REPLY = 0x04
    ERR = 0x05

    # The bodies of DECLARE, another one: even numbers declare, odd ones undeclare
    D_KEYEXPR = 0x00
    U_KEYEXPR = 0x01
    D_SUBSCRIBER = 0x02
    U_SUBSCRIBER = 0x03
    D_QUERYABLE = 0x04
    U_QUERYABLE = 0x05
    D_TOKEN = 0x06
    U_TOKEN = 0x07
    D_FINAL = 0x1A

    END = -2  # what a reader says when there is no message left
