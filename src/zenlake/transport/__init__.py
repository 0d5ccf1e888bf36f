# SPDX-License-Identifier: Apache-2.0
"""One live connection, sans-IO: handshake, lanes, batches, queues, timers.

It knows no clock, socket, thread or randomness: `now`, secrets and bytes are arguments; bytes, events and the next time
to be woken are results. `docs/design/transport.md` draws its state machine.
"""
