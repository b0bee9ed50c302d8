<?php

namespace Drupal\site\Plugin\jsonrpc\Method;

use Drupal\Core\StringTranslation\TranslatableMarkup;
use Drupal\jsonrpc\Attribute\JsonRpcMethod;
use Drupal\jsonrpc_mcp\Attribute\McpTool;

/**
 * Rebuilds the caches.
 */
#[JsonRpcMethod(
  id: "cache.rebuild",
  usage: new TranslatableMarkup("Rebuilds the system cache."),
  access: ["administer site configuration"],
)]
#[McpTool(
  title: "Rebuild the cache",
  annotations: ['category' => 'system', 'destructiveHint' => TRUE],
)]
class CacheRebuild {

  public function execute(array $params): bool {
    return TRUE;
  }

  public static function outputSchema(): array {
    return ['type' => 'boolean'];
  }

}
