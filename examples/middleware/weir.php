<?php
// Asks Weir about a request at the beginning of a script, or of the script that all requests go to.
//
//     require 'weir.php';
//     weir_limit('http://127.0.0.1:8080');
//     weir_limit('http://127.0.0.1:8080', fail_open: false, timeout: 0.1, token: 'weir_…');
//
// A denied request is answered here, as Weir says: 429 or 503, with Retry-After, and the script
// ends. If Weir does not answer within `timeout` seconds, the request passes (`fail_open`) or is
// answered 503. Where Weir has users, `token` is one's; without it, WEIR_TOKEN of the environment is.
// PHP 8, no extensions but, for https, openssl. On Weir's own host use its Unix socket, 'unix:/run/weir/http.sock'.
//
// Where a limit waits for a report of the request, it gets one at the end of the script: `success`, `failure` (5xx or
// an error that ended the script), `timeout` (504 or max_execution_time), or `ignored` (4xx, or the client has left),
// and how long the request took. Under PHP-FPM the client has its answer by then. If the report fails, that is
// logged and changes nothing for the client.

// [status, header lines, answer]; status 0: none in time. PHP's own HTTP client knows no Unix sockets.
function weir_post_to_socket(string $socket, string $path, string $header, string $content, float $timeout): array
{
    $stream = @stream_socket_client("unix://$socket", $code, $message, $timeout);
    if (!$stream) {
        return [0, [], "no answer: $message"];
    }
    stream_set_timeout($stream, (int) $timeout, (int) (fmod($timeout, 1) * 1e6));
    fwrite($stream, "POST $path HTTP/1.1\r\nHost: localhost\r\n$header\r\nContent-Length: " . strlen($content) .
        "\r\n\r\n$content");
    $answer = (string) stream_get_contents($stream); // until Weir closes
    $is_late = stream_get_meta_data($stream)['timed_out'];
    fclose($stream);
    if ($is_late || !str_contains($answer, "\r\n\r\n")) {
        return [0, [], 'no answer'];
    }
    [$head, $text] = explode("\r\n\r\n", $answer, 2);
    $lines = explode("\r\n", $head);
    return [(int) explode(' ', $lines[0])[1], $lines, $text];
}

// The same for any URL.
function weir_post(string $url, string $path, array $body, float $timeout, string $token): array
{
    $header = "Content-Type: application/json\r\nConnection: close" .
        ($token === '' ? '' : "\r\nAuthorization: Bearer $token");
    $content = json_encode($body, JSON_INVALID_UTF8_SUBSTITUTE);
    if (str_starts_with($url, 'unix:')) {
        return weir_post_to_socket(substr($url, 5), $path, $header, $content, $timeout);
    }
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => $header,
        'content' => $content,
        'timeout' => $timeout,
        'ignore_errors' => true, // 429 is an answer
    ]]);
    $answer = @file_get_contents(rtrim($url, '/') . $path, false, $context);
    return $answer === false ? [0, [], 'no answer']
        : [(int) explode(' ', $http_response_header[0])[1], $http_response_header, $answer];
}

function weir_outcome(): string
{
    $error = error_get_last();
    if ($error && $error['type'] & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR)) {
        return str_starts_with($error['message'], 'Maximum execution time') ? 'timeout' : 'failure';
    }
    $status = http_response_code();
    if ($status >= 500) {
        return $status === 504 ? 'timeout' : 'failure';
    }
    return $status >= 400 || connection_aborted() ? 'ignored' : 'success';
}

function weir_limit(string $url, bool $fail_open = true, float $timeout = 0.1, string $token = ''): void
{
    $attributes = [
        'method' => $_SERVER['REQUEST_METHOD'],
        'path' => rawurldecode(explode('?', $_SERVER['REQUEST_URI'])[0]),
        'ip' => $_SERVER['REMOTE_ADDR'],
    ];
    $token = $token ?: (string) getenv('WEIR_TOKEN');
    [$status, $headers, $text] = weir_post($url, '/v1/acquire', ['attributes' => $attributes], $timeout, $token);
    $answer = json_decode($text, true);
    if (!isset($answer['allowed'])) {
        error_log("weir: no decision: $text");
        if ($fail_open) {
            return;
        }
        http_response_code(503);
        exit("try again later\n");
    }
    foreach ($headers as $line) {
        if (preg_match('/^(RateLimit|RateLimit-Policy|Retry-After):/i', $line)) {
            header($line);
        }
    }
    if (!$answer['allowed']) {
        http_response_code($status);
        exit("too many requests\n");
    }
    if (isset($answer['permit'])) {
        weir_report_at_end($url, $answer['permit'], $timeout, $token);
    }
}

// Behind the functions that the application has registered.
function weir_report_at_end(string $url, string $permit, float $timeout, string $token): void
{
    $begun = hrtime(true);
    $report = function () use ($url, $permit, $timeout, $token, $begun): void {
        $ms = max(intdiv(hrtime(true) - $begun, 1000000), 1);
        $body = ['permit' => $permit, 'outcome' => weir_outcome(), 'latency_ms' => $ms];
        if (function_exists('fastcgi_finish_request')) {
            fastcgi_finish_request();
        }
        [$status, , $text] = weir_post($url, '/v1/report', $body, $timeout, $token);
        if ($status !== 200) {
            error_log("weir: no report: $text");
        }
    };
    register_shutdown_function(fn() => register_shutdown_function($report));
}
