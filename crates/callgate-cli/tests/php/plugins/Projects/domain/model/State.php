<?php

namespace plugin\Projects\domain\model;

/** How far a project is. */
enum State: string
{
    case Planned = 'planned';
    case Running = 'running';
    case Done = self::PREFIX . 'one';

    private const PREFIX = 'd';
}
