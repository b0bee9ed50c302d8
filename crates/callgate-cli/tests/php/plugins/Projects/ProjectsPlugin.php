<?php

use plugin\Projects\Dates;
use plugin\Projects\domain\model\{CommitValuesObject, Person as Owner, Priority, State};

/**
 * Projects, as a Festi application has them.
 */
class ProjectsPlugin extends DisplayPlugin
{
    use Dates;

    public const PAGE = 5 * 5;
    protected const WORDS = ['none', 'some'];

    private array $projects = [1 => 'Bridge', 2 => 'Tunnel'];

    /**
     * Looks up a project.
     *
     * The details are its state and its owner.
     *
     * @rpc getProject
     * @param int $idProject
     * @param bool $includeDetails Whether to add the details.
     * @return array The project, with `id` and `name`.
     * @section projects  // a section of festi_sections
     * @mcpReadOnly
     */
    public function getProject(int $idProject, bool $includeDetails = false): array
    {
        if (!isset($this->projects[$idProject])) {
            throw new DomainException("there is no project $idProject", 404);
        }
        $project = ['id' => $idProject, 'name' => $this->projects[$idProject]];
        return $includeDetails ? $project + ['state' => 'running', 'owner' => 'Ada'] : $project;
    }

    /**
     * Finds projects: words with spaces between them, all of which must be there.
     *
     * @rpc
     * @param string $query
     * @param State[] $states Only these.
     * @param 'name'|'date' $order
     * @param array<string, int> $weights How much each word counts.
     * @param Owner|null $owner
     * @section projects
     * @mcpReadOnly
     */
    public function findProjects(
        string $query,
        array $states = [],
        Priority $atLeast = Priority::Low,
        string $order = 'name',
        int $limit = self::PAGE,
        array $weights = [],
        ?Owner $owner = null,
        string $from = __DIR__,
    ): array {
        $found = preg_grep('/' . preg_quote($query, '/') . '/i', $this->projects);
        return [
            'items' => array_values(array_slice($found, 0, $limit)),
            'atLeast' => $atLeast->name,
            'owner' => $owner?->name,
        ];
    }

    /**
     * Adds commits to a project.
     *
     * @rpc batchCreateByProjectID
     * @param CommitValuesObject[] $commits
     * @param string $serviceName
     * @param int $idProject
     * @return int how many there are now
     * @section projects
     * @section commits
     * @mcpDestructive
     */
    public function batchCreateByProjectID(array $commits, string $serviceName, int $idProject): int
    {
        return count($commits);
    }

    /**
     * All projects, for a page.
     *
     * @rpc getProjects
     * @param Response $response
     * @return bool
     */
    public function onDisplayList(Response &$response): bool
    {
        $response->content = ['items' => array_values($this->projects), 'total' => 2];
        return true;
    }

    /**
     * Takes what there is.
     *
     * @rpc mixAll
     * @param $anything
     * @param int|string $key
     * @param int[]|string $some
     */
    public function mixAll(
        $anything,
        int|string $key,
        array|string $some,
        mixed $other = null,
        ?string $word = self::WORDS[0],
        float $ratio = -.5,
        string $text = <<<TEXT
            two
              lines
            TEXT,
        int ...$rest,
    ): string {
        return json_encode(func_get_args());
    }

    /**
     * @rpc waitFor
     * @param string $file Made when it begins.
     * @mcpDestructive
     */
    public function waitFor(string $file, int $seconds): bool
    {
        touch($file);
        sleep($seconds);
        return true;
    }

    /**
     * Both cannot be.
     *
     * @rpc archiveProject
     * @mcpReadOnly
     * @mcpDestructive
     * @deprecated
     */
    public function archiveProject(int $idProject): void
    {
    }

    /** @rpc hiddenAway */
    private function hiddenAway(): void
    {
    }

    /** @rpc callBack */
    public function callBack(callable $what): void
    {
    }

    /** Not a method for others. */
    public function helper(): void
    {
    }
}
