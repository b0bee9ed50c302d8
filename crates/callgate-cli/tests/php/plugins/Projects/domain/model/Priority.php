<?php

namespace plugin\Projects\domain\model;

enum Priority: int
{
    case Low = 1;
    case High = 0x10;
}
