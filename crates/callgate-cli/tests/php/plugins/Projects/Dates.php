<?php

namespace plugin\Projects;

/** For plugins that know what day it is. */
trait Dates
{
    /**
     * The year that a number of days ago was in.
     *
     * @rpc yearOf
     * @param positive-int $days
     * @mcpReadOnly
     */
    public function yearOf(int $days): int
    {
        return (int) gmdate('Y', 1_700_000_000 - $days * 86400);
    }
}
