<?php

/* Started by `php -S 127.0.0.1:PORT router.php`. */

require __DIR__ . '/host.php';

header('Content-Type: application/json');
$request = json_decode(file_get_contents('php://input'), true);
$reply = ['jsonrpc' => '2.0', 'id' => $request['id'] ?? null];
try {
    $method = methods()[$request['method'] ?? ''] ?? null;
    if ($method === null) {
        throw new BadMethodCallException('Method not found', -32601);
    }
    $reply['result'] = call($method, $request['params'] ?? []);
} catch (Throwable $error) {
    $reply['error'] = ['code' => $error->getCode() ?: -32603, 'message' => $error->getMessage()];
}
echo json_encode($reply);
