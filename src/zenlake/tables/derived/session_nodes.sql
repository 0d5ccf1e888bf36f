-- SPDX-License-Identifier: Apache-2.0
-- The two nodes of one session, from its handshake, for the tables that name publishers, subscribers and queriers.
select
    log as log,
    writer as writer,
    session as session,
    generation as generation,
    max(get_json_object(detail, '$.ends[0].zid')) as opener,
    max(get_json_object(detail, '$.ends[1].zid')) as acceptor,
    max(get_json_object(detail, '$.ends[0].whatami')) as opener_role,
    max(get_json_object(detail, '$.ends[1].whatami')) as acceptor_role
from events
where kind in ('opened', 'joined')
group by log, writer, session, generation
