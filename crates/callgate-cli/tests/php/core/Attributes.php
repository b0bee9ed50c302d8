<?php

namespace Drupal\Core\StringTranslation {
    final class TranslatableMarkup
    {
        public function __construct(public string $string, public array $arguments = [])
        {
        }
    }
}

namespace Drupal\jsonrpc\Attribute {
    use Drupal\Core\StringTranslation\TranslatableMarkup;

    #[\Attribute(\Attribute::TARGET_CLASS)]
    final class JsonRpcMethod
    {
        public function __construct(
            public string $id,
            public TranslatableMarkup $usage,
            public array $access,
            public ?array $params = null,
        ) {
        }
    }

    final class JsonRpcParameterDefinition
    {
        public function __construct(
            public string $id,
            public ?array $schema = null,
            public ?string $factory = null,
            public ?TranslatableMarkup $description = null,
            public ?bool $required = false,
        ) {
        }
    }
}

namespace Drupal\jsonrpc_mcp\Attribute {
    #[\Attribute(\Attribute::TARGET_CLASS)]
    final class McpTool
    {
        public function __construct(public ?string $title = null, public ?array $annotations = null)
        {
        }
    }
}
