<?php

/*
 * A small JSON-RPC host: the methods of the plugins that `@rpc` marks, and those that attributes
 * describe. `router.php` serves it, `reflect.php` tells what PHP itself knows of the methods.
 */

require __DIR__ . '/core/Core.php';
require __DIR__ . '/core/Attributes.php';

spl_autoload_register(function (string $class): void {
    $name = str_replace('\\', '/', $class);
    $paths = ["$name.php", preg_replace('~^plugin/~', 'plugins/', $name) . '.php'];
    if (preg_match('~^(\w+)Plugin$~', $name, $match)) {
        $paths[] = "plugins/$match[1]/$name.php";
    }
    if (preg_match('~^Drupal/(\w+)/(.*)$~', $name, $match)) {
        $paths[] = "modules/$match[1]/src/$match[2].php";
    }
    foreach ($paths as $path) {
        if (is_file(__DIR__ . "/$path")) {
            require __DIR__ . "/$path";
            return;
        }
    }
});

/** Every method: its id, and the function behind it. */
function methods(): array
{
    $methods = [];
    foreach ((new ReflectionClass('ProjectsPlugin'))->getMethods() as $method) {
        if ($method->isPublic() && preg_match('~@rpc[ \t]*(\w*)~', (string) $method->getDocComment(), $match)) {
            $methods[$match[1] ?: $method->getName()] = $method;
        }
    }
    foreach (['CacheRebuild', 'NodeCreate', 'UserCount'] as $name) {
        $class = new ReflectionClass("Drupal\\site\\Plugin\\jsonrpc\\Method\\$name");
        $attribute = $class->getAttributes(\Drupal\jsonrpc\Attribute\JsonRpcMethod::class)[0];
        $methods[$attribute->newInstance()->id] = $class->getMethod('execute');
    }
    return $methods;
}

/** Calls a method with parameters by name or by position. */
function call(ReflectionMethod $method, array $params): mixed
{
    $object = $method->getDeclaringClass()->newInstance();
    if ($method->getName() === 'execute') {
        return $object->execute($params);
    }
    $expected = $method->getParameters();
    $response = null;
    $arguments = [];
    if ($expected && (string) $expected[0]->getType() === 'Response') {
        array_shift($expected);
        $response = new Response();
        $arguments[] = &$response;
    }
    foreach ($expected as $number => $parameter) {
        $key = array_is_list($params) ? $number : $parameter->getName();
        if (!array_key_exists($key, $params)) {
            if (!$parameter->isOptional()) {
                throw new InvalidArgumentException("Missing parameter: {$parameter->getName()}", -32602);
            }
            continue;
        }
        $arguments[$parameter->getName()] = value($parameter->getType(), $params[$key]);
    }
    $result = $method->invokeArgs($object, $arguments);
    return $response ? $response->content : $result;
}

/** What JSON has, as the type wants it. */
function value(?ReflectionType $type, mixed $value): mixed
{
    if ($value === null || !$type instanceof ReflectionNamedType || $type->isBuiltin()) {
        return $value;
    }
    $class = $type->getName();
    return is_subclass_of($class, BackedEnum::class) ? $class::from($value) : new $class(...$value);
}
