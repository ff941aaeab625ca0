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
// PHP 8, no extensions but, for https, openssl.

function weir_limit(string $url, bool $fail_open = true, float $timeout = 0.1, string $token = ''): void
{
    $attributes = [
        'method' => $_SERVER['REQUEST_METHOD'],
        'path' => rawurldecode(explode('?', $_SERVER['REQUEST_URI'])[0]),
        'ip' => $_SERVER['REMOTE_ADDR'],
    ];
    $token = $token ?: (string) getenv('WEIR_TOKEN');
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => "Content-Type: application/json\r\nConnection: close" .
            ($token === '' ? '' : "\r\nAuthorization: Bearer $token"),
        'content' => json_encode(['attributes' => $attributes], JSON_INVALID_UTF8_SUBSTITUTE),
        'timeout' => $timeout,
        'ignore_errors' => true, // 429 is an answer
    ]]);
    $body = @file_get_contents(rtrim($url, '/') . '/v1/acquire', false, $context);
    $answer = $body === false ? null : json_decode($body, true);
    if (!isset($answer['allowed'])) {
        error_log('weir: no decision: ' . ($body === false ? 'no answer' : $body));
        if ($fail_open) {
            return;
        }
        http_response_code(503);
        exit("try again later\n");
    }
    foreach ($http_response_header as $line) {
        if (preg_match('/^(RateLimit|RateLimit-Policy|Retry-After):/i', $line)) {
            header($line);
        }
    }
    if (!$answer['allowed']) {
        http_response_code((int) explode(' ', $http_response_header[0])[1]);
        exit("too many requests\n");
    }
}
