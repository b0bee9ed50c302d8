<?php

namespace plugin\Projects\domain\model;

use core\json\JsonProperty;
use ValuesObject;

class CommitValuesObject extends ValuesObject
{
    #[JsonProperty("sha")]
    private string $hash;

    /** The first line of its message. */
    #[JsonProperty('subject')]
    private ?string $title = null;

    /**
     * @var string[] Paths below the root.
     */
    #[JsonProperty("files")]
    private array $changedFiles = [];

    #[JsonProperty('author')]
    private Person $author;

    /** Not in JSON, so not in the schema. */
    private int $row = 0;
}
