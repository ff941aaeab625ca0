<?php
// Koala's client class, and a script of it: koala.php PORT. See README.md.

class KoalaClient
{
    public function __construct(private string $base)
    {
    }

    /* Whether the request may pass; with $write it is also counted, in one step. */
    public function browse(array $parameters, bool $write = false): array
    {
        if ($write) {
            $parameters['_writeThrough'] = 'yes';
        }
        return self::verdict($this->ask('/rule/browse', $parameters));
    }

    public function update(array $parameters): bool
    {
        return $this->ask('/rule/update', $parameters)['err_no'] === 0;
    }

    public function complete(array $parameters): array
    {
        return array_map(self::verdict(...), $this->ask('/rule/browse_complete', $parameters));
    }

    public function feedback(array $parameters, string $type = 'erase1'): bool
    {
        $parameters['_feedbackType'] = $type;
        return $this->ask('/rule/feedback', $parameters)['err_no'] === 0;
    }

    public function value(int $rule, array $parameters): int
    {
        return $this->ask('/rule/value', ['rule_no' => $rule] + $parameters)['cache_val'];
    }

    /* $many: parameters by the caller's name for them, which the answers have as well. */
    public function multi(array $many): array
    {
        $arguments = [];
        foreach ($many as $id => $parameters) {
            $arguments[] = ['Id' => (string) $id, 'Arg' => rawurlencode(http_build_query($parameters))];
        }
        $verdicts = [];
        foreach ($this->ask('/multi/browse', ['argsJson' => json_encode($arguments)], true) as $item) {
            if ($item['ID'] !== $item['Id']) {
                throw new Exception('two names for one answer');
            }
            $verdicts[$item['Id']] = self::verdict($item['Result']);
        }
        return $verdicts;
    }

    /* What callers look at. Each field must be there: PHP only warns of one that is not. */
    private static function verdict(array $result): array
    {
        foreach (['Err_no', 'Str_reason', 'Ret_code', 'Vcode_len'] as $name) {
            if (!array_key_exists($name, $result)) {
                throw new Exception("no $name");
            }
        }
        return [
            'allowed' => $result['Err_no'] === 0,
            'reason' => $result['Str_reason'],
            'code' => $result['Ret_code'],
            'digits' => $result['Vcode_len'],
        ];
    }

    private function ask(string $path, array $parameters, bool $post = false): array
    {
        $query = http_build_query($parameters);
        $options = ['timeout' => 60];
        if ($post) {
            $options += ['method' => 'POST', 'content' => $query,
                         'header' => 'Content-Type: application/x-www-form-urlencoded'];
        }
        $text = file_get_contents($this->base . $path . ($post ? '' : "?$query"), false,
                                  stream_context_create(['http' => $options]));
        return json_decode($text, true, 16, JSON_THROW_ON_ERROR);
    }
}

$client = new KoalaClient("http://127.0.0.1:$argv[1]");
$who = ['act' => 'ask', 'uid' => 'ä b&c'];
$page = ['page' => 'index.php?a=1'];
$seen = [
    'unknown' => $client->browse(['act' => 'none']),
    'before' => $client->browse($who),
    'updated' => [$client->update($who), $client->update($who)],
    'count' => $client->value(111, $who),
    'written' => [$client->browse($who, true)['allowed'], $client->browse($who, true)['allowed']],
    'after' => $client->browse($who),
    'complete' => $client->complete($who + ['uid2' => '1', 'vip' => 'no']),
    'all' => $client->multi(['x' => $who, 'y' => ['act' => 'ask', 'uid' => 2]]),
];
for ($i = 0; $i < 5; $i++) {
    $client->update($page);
}
$seen['full'] = $client->browse($page);
$seen['taken back'] = [$client->feedback($page), $client->value(1201, $page)];
$seen['more'] = [$client->feedback($page, 'erase2'), $client->value(1201, $page)];
echo json_encode($seen, JSON_UNESCAPED_UNICODE), "\n";
