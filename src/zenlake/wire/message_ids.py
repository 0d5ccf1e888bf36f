# SPDX-License-Identifier: Apache-2.0
"""Message ids: the low five bits of the header byte."""

import cython

if not cython.compiled:  # compiled: constants of C, in the .pxd
    Z = 0x80  # bit of every header: extensions follow
    KIND = 0x1F  # the bits of these ids

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
    NETWORK = 0x19  # the lowest id
    INTEREST = 0x19
    RESPONSE_FINAL = 0x1A
    RESPONSE = 0x1B
    REQUEST = 0x1C
    PUSH = 0x1D
    SENDERS = 0x40  # header bits: M = the sender declared the key's id, N = a suffix follows
    SUFFIX = 0x20
    DECLARE = 0x1E
    OAM = 0x1F

    # Data messages: the bodies of PUSH, REQUEST and RESPONSE, with a separate id space
    PUT = 0x01
    ENCODED = 0x40  # header bits: E = an encoding follows, T = a timestamp follows
    STAMPED = 0x20
    DEL = 0x02
    QUERY = 0x03
    REPLY = 0x04
    ERR = 0x05

    # The bodies of DECLARE, with a separate id space: even ids declare, odd ids undeclare
    D_KEYEXPR = 0x00
    U_KEYEXPR = 0x01
    D_SUBSCRIBER = 0x02
    U_SUBSCRIBER = 0x03
    D_QUERYABLE = 0x04
    U_QUERYABLE = 0x05
    D_TOKEN = 0x06
    U_TOKEN = 0x07
    D_FINAL = 0x1A

    END = -2  # returned by a reader at the end
