<?php

namespace core\json;

#[\Attribute(\Attribute::TARGET_PROPERTY | \Attribute::TARGET_PARAMETER)]
final class JsonProperty
{
    public function __construct(public string $name)
    {
    }
}
