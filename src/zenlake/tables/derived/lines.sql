-- SPDX-License-Identifier: Apache-2.0
-- The texts that samples have in common, for `recorded_hops`: one row per session, direction, file, key, kind, source and clock.
--
-- `line` is the hash of these texts. Rows of `recorded_hops` have it instead of the texts, because all of them are sorted several times.
with
ends as (
    select
        log,
        writer,
        session,
        generation,
        max(get_json_object(detail, '$.ends[0].zid')) as opener,
        max(get_json_object(detail, '$.ends[1].zid')) as acceptor,
        max(get_json_object(detail, '$.ends[0].whatami')) as opener_role,
        max(get_json_object(detail, '$.ends[1].whatami')) as acceptor_role
    from events
    where kind in ('opened', 'joined')
    group by log, writer, session, generation
),
texts as (
    select
        xxhash64(concat(
            coalesce(log, ''), ' ', coalesce(writer, ''), ' ', session, ' ', cast(generation as string), ' ', cast(direction as string), ' ',
            coalesce(file, ''), ' ', coalesce(key, ''), ' ', coalesce(unresolved_key, ''), ' ', kind, ' ',
            coalesce(source_zid, ''), ' ', coalesce(timestamp_id, '')
        )) as line,
        any_value(log) as log,
        any_value(writer) as writer,
        any_value(session) as session,
        any_value(generation) as generation,
        any_value(direction) as direction,
        any_value(file) as file,
        any_value(key) as key,
        any_value(unresolved_key) as unresolved_key,
        any_value(kind) as kind,
        any_value(source_zid) as source_zid,
        any_value(timestamp_id) as timestamp_id,
        count(shm) as shared,
        count(payload_sha256) as redacted
    from samples
    where request_id is null
    group by 1
)
select
    texts.line as line,
    texts.log as log,
    texts.writer as writer,
    texts.session as session,
    texts.generation as generation,
    texts.direction as direction,
    texts.file as file,
    texts.key as key,
    texts.unresolved_key as unresolved_key,
    texts.kind as kind,
    texts.source_zid as source_zid,
    texts.timestamp_id as timestamp_id,
    case when texts.direction = 0 then ends.opener else ends.acceptor end as sender,
    case when texts.direction = 0 then ends.opener_role else ends.acceptor_role end as sender_role,
    case when texts.direction = 0 then ends.acceptor else ends.opener end as receiver,
    case when texts.direction = 0 then ends.acceptor_role else ends.opener_role end as receiver_role,
    xxhash64(concat(
        coalesce(texts.log, ''), ' ', coalesce(texts.writer, ''), ' ', texts.session, ' ', cast(texts.generation as string), ' ',
        cast(texts.direction as string)
    )) as leg,
    xxhash64(concat(coalesce(texts.key, ''), ' ', coalesce(texts.unresolved_key, ''), ' ', texts.kind)) as topic,
    sum(texts.shared) over (partition by texts.key, texts.unresolved_key) > 0 as any_shared,
    sum(texts.redacted) over (partition by texts.key, texts.unresolved_key) > 0 as any_redacted
from texts
left join ends
    on ends.log is not distinct from texts.log and ends.writer is not distinct from texts.writer
    and ends.session = texts.session and ends.generation = texts.generation
