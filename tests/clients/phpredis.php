<?php
// phpredis with its default settings: phpredis.php PORT KEY. See README.md.
const CONNECTIONS = 5;
const EACH = 30;

[, $port, $key] = $argv;

function connect(): Redis
{
    global $port;
    $client = new Redis();
    $client->connect('127.0.0.1', (int) $port);
    return $client;
}

/* What remains, by each reply. */
function remaining(array $replies): array
{
    return array_map(fn($reply) => $reply[2], $replies);
}

/* All connections are open at once, and ask by turns. */
function crowd(string $key): int
{
    $clients = array_map(fn() => connect(), range(1, CONNECTIONS));
    $passed = 0;
    for ($i = 0; $i < EACH; $i++) {
        foreach ($clients as $client) {
            $passed += $client->rawCommand('CL.THROTTLE', $key, 99, 1, 3600)[0] === 0;
        }
    }
    return $passed;
}

/* The same commands in one of its modes. */
function batch(Redis $batch, int $n, string ...$words): array
{
    for ($i = 0; $i < $n; $i++) {
        $batch->rawCommand(...$words);
    }
    return $batch->exec();
}

/* Asks until the library has seen that the server was started anew. */
function again(Redis $client, string $key): array
{
    while (true) {
        try {
            $reply = $client->rawCommand('WEIR.ACQUIRE', 'login', $key);
            if ($reply) {
                return $reply;
            }
        } catch (RedisException) {
        }
    }
}

$client = connect();
$seen = [
    'ping' => $client->ping('PONG'),
    'cell' => $client->rawCommand('CL.THROTTLE', "$key:cell", 9, 5, 3600),
    'crab' => $client->rawCommand('THROTTLE', "$key:crab", 9, 5, 3600),
    'acquire' => $client->rawCommand('WEIR.ACQUIRE', 'login', $key),
    'custom' => $client->rawCommand('WEIR.ACQUIRE', 'login', $key),
    'check' => $client->rawCommand('WEIR.CHECK', 'path', '/login', 'ip', "$key:ip"),
];
$client->rawCommand('WEIR.ACQUIRE', 'nosuch', $key);
$seen['error'] = $client->getLastError();
$seen['alive'] = $client->ping('PONG');
$seen['pipeline'] = remaining(
    batch($client->pipeline(), 1000, 'CL.THROTTLE', "$key:pipeline", '999', '1', '3600'));
$seen['transaction'] = remaining(
    batch($client->multi(), 3, 'CL.THROTTLE', "$key:multi", '9', '1', '3600'));
$seen['cleared'] = [$client->del("$key:multi"), $client->exists("$key:multi")];
$seen['passed'] = crowd("$key:crowd");
echo json_encode($seen, JSON_UNESCAPED_SLASHES), "\n";

fgets(STDIN);
echo json_encode(['again' => again($client, $key)]), "\n";
