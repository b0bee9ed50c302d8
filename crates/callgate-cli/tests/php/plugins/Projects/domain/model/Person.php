<?php

namespace plugin\Projects\domain\model;

/** Without JsonProperty, what is public counts. */
final class Person
{
    /**
     * @param string $name As on the badge.
     * @param self[] $team Who they lead.
     */
    public function __construct(
        public readonly string $name,
        public readonly array $team = [],
        private readonly int $row = 0,
    ) {
    }
}
