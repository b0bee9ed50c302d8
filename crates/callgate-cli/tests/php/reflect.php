<?php

/* What PHP itself knows of the methods, as JSON. */

require __DIR__ . '/host.php';

$signatures = [];
foreach (methods() as $id => $method) {
    if ($method->getName() === 'execute') {
        continue;
    }
    $signatures[$id] = array_map(fn (ReflectionParameter $it) => [
        'name' => $it->getName(),
        'type' => (string) $it->getType(),
        'optional' => $it->isOptional(),
        'default' => $it->isDefaultValueAvailable() ? $it->getDefaultValue() : null,
        'has_default' => $it->isDefaultValueAvailable(),
    ], $method->getParameters());
}
echo json_encode($signatures);
