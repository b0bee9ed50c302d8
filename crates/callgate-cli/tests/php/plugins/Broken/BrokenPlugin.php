<?php

class BrokenPlugin extends DisplayPlugin
{
    /** @rpc neverThere */
    public function neverThere(int $id {
        return $id;
    }
}
