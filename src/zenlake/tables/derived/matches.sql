-- SPDX-License-Identifier: Apache-2.0
-- One declared key expression, of a subscriber or a publisher, and one published key that it intersects, for `matrix` and the report.
--
-- Key expressions become regular expressions. `*` is a chunk, `**` any number of chunks, `$*` any part of a chunk. They do not match chunks
-- that begin with @. If both keys have wildcards, one must include the other.
with
texts as (
    select
        key,
        is_declared,
        concat('/', translate(
            key,
            concat('.+?(){}[]|^', chr(92)),
            concat(chr(1), chr(2), chr(3), chr(4), chr(5), chr(6), chr(7), chr(8), chr(14), chr(15), chr(16), chr(17))
        )) as text
    from (
        select distinct key, true as is_declared
        from declarations
        where key is not null and (kind = 'subscriber' and action = 'declare' or action = 'interest' and contains(wants, 'S'))
        union all
        select distinct key, false as is_declared from samples where key is not null and request_id is null
    ) as keys
),
patterns as (
    select
        *,
        regexp_replace(regexp_extract(text, '^[^*$]*', 0), '/$', '') as prefix,
        concat('^', replace(replace(replace(replace(replace(replace(replace(
            text,
            '/$*', chr(18)),
            '$*', chr(19)),
            '/**', chr(20)),
            '/*', '/[^@/][^/]*'),
            chr(20), '(/[^@/][^/]*)*'),
            chr(19), '[^/]*'),
            chr(18), '/([^@/][^/]*)?'
        ), '$') as pattern
    from texts
)
select
    declared.key as expression,  -- The key expression of the declaration
    published.key as key  -- The published key
from patterns as declared
join patterns as published
    on substr(published.text, 1, length(declared.prefix)) = declared.prefix and regexp_like(published.text, declared.pattern)
    or instr(published.text, '*') > 0 and regexp_like(declared.text, published.pattern)
where declared.is_declared and not published.is_declared
