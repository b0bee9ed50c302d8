<?php

namespace Drupal\site\Plugin\jsonrpc\Method;

use Drupal\Core\StringTranslation\TranslatableMarkup;
use Drupal\jsonrpc\Attribute\JsonRpcMethod;

/**
 * Nobody marked it as a tool.
 */
#[JsonRpcMethod(
  id: "user.count",
  usage: new TranslatableMarkup("Counts the users."),
  access: ["administer users"],
)]
class UserCount {

  public function execute(array $params): int {
    return 3;
  }

}
