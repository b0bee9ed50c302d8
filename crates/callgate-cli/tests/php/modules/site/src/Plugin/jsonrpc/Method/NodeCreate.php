<?php

namespace Drupal\site\Plugin\jsonrpc\Method;

use Drupal\Core\StringTranslation\TranslatableMarkup;
use Drupal\jsonrpc\Attribute\JsonRpcMethod;
use Drupal\jsonrpc\Attribute\JsonRpcParameterDefinition as Param;
use Drupal\jsonrpc\ParameterFactory\PaginationParameterFactory;
use Drupal\jsonrpc_mcp\Attribute\McpTool;

#[JsonRpcMethod(
  id: self::PREFIX . '.create',
  usage: new TranslatableMarkup('Creates a node.' . ' ' . "It\u{2019}s shown at once."),
  access: ["create content"],
  params: [
    'title' => new Param(
      'title',
      ['type' => 'string', 'maxLength' => self::LONGEST],
      NULL,
      new TranslatableMarkup("The node's title"),
      TRUE
    ),
    'tags' => new Param(
      id: 'tags',
      schema: ['type' => 'array', 'items' => ['type' => 'string', 'enum' => [...self::TAGS, 'other']]],
    ),
    'page' => new Param('page', NULL, PaginationParameterFactory::class),
  ],
)]
#[McpTool(title: "Create a node")]
final class NodeCreate {

  const PREFIX = 'node';
  const LONGEST = 1 << 8;
  const TAGS = ['news', 'blog'];

  public function execute(array $params): array {
    return ['id' => 7, 'title' => $params['title']];
  }

}
