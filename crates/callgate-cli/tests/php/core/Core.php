<?php

/** What every plugin has. */
abstract class DisplayPlugin
{
    public function getName(): string
    {
        return static::class;
    }
}

/** Values with names of their own in JSON. */
abstract class ValuesObject
{
}

/** What a display method fills; its contents are the result. */
class Response
{
    /** @var array<string, mixed> */
    public array $content = [];
}
