import com.netflix.concurrency.limits.Limiter;
import com.netflix.concurrency.limits.limit.Gradient2Limit;
import com.netflix.concurrency.limits.limiter.SimpleLimiter;
import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * Between the clients and the server, with a limiter of Java around each call: as
 * bench/closed_loop/gate.c, whose frames are in wire.h.
 *
 * <pre>Gate SERVER_PORT LIMITER TIMEOUT_MS</pre>
 */
public final class Gate {
    private static final byte ANSWERED = 0, DENIED = 1, FAILED = 2;
    private static final int BYTES = 16, LIMIT = 8, STATUS = 14, STACK = 256 << 10;

    /** What is asked before each call; the answer is told whether the call succeeded. */
    private interface Guard {
        Optional<Consumer<Boolean>> acquire();

        int limit();
    }

    private static Guard gradient2() {
        Gradient2Limit limit = Gradient2Limit.newBuilder().minLimit(1).maxConcurrency(1000).build();
        SimpleLimiter<Void> limiter = SimpleLimiter.newBuilder().limit(limit).build();
        return new Guard() {
            public Optional<Consumer<Boolean>> acquire() {
                Optional<Limiter.Listener> permit = limiter.acquire(null);
                return permit.map(listener -> success -> {
                    if (success) listener.onSuccess();
                    else listener.onDropped();
                });
            }

            public int limit() {
                return limiter.getLimit();
            }
        };
    }

    private static Guard breaker() {
        CircuitBreaker breaker = CircuitBreaker.of("server", CircuitBreakerConfig.custom()
            .slidingWindowType(CircuitBreakerConfig.SlidingWindowType.TIME_BASED)
            .slidingWindowSize(2)
            .minimumNumberOfCalls(20)
            .failureRateThreshold(50)
            .slowCallDurationThreshold(Duration.ofMillis(200))
            .slowCallRateThreshold(50)
            .waitDurationInOpenState(Duration.ofSeconds(1))
            .build());
        IOException failure = new IOException("the call failed");
        return new Guard() {
            public Optional<Consumer<Boolean>> acquire() {
                if (!breaker.tryAcquirePermission()) return Optional.empty();
                long start = breaker.getCurrentTimestamp();
                return Optional.of(success -> {
                    long took = breaker.getCurrentTimestamp() - start;
                    if (success) breaker.onSuccess(took, breaker.getTimestampUnit());
                    else breaker.onError(took, breaker.getTimestampUnit(), failure);
                });
            }

            public int limit() {
                return 0;
            }
        };
    }

    private final Guard guard;
    private final InetSocketAddress address;
    private final int timeoutMs;

    private Gate(Guard guard, int port, int timeoutMs) {
        this.guard = guard;
        this.address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        this.timeoutMs = timeoutMs;
    }

    /** One client, and its connection to the server, which begins anew after an error. */
    private final class Connection implements Runnable {
        private final Socket client;
        private final byte[] frame = new byte[BYTES];
        private Socket server;
        private DataInputStream fromServer;

        Connection(Socket client) {
            this.client = client;
        }

        private void begin() throws IOException {
            server = new Socket();
            server.connect(address);
            server.setTcpNoDelay(true);
            server.setSoTimeout(timeoutMs);
            fromServer = new DataInputStream(server.getInputStream());
        }

        private void end() {
            try {
                server.close();
            } catch (IOException ignored) {
                // it is gone anyway
            }
            server = null;
        }

        /** After an error the connection begins anew; if it was kept from an earlier call and the
            server had closed it, with the same call. */
        private boolean call() {
            for (;;) {
                boolean kept = server != null;
                try {
                    if (!kept) begin();
                    server.getOutputStream().write(frame);
                    fromServer.readFully(frame);
                    return true;
                } catch (IOException error) {
                    end();
                    if (!kept || error instanceof SocketTimeoutException) return false;
                }
            }
        }

        private void answer() {
            byte status = DENIED;
            Optional<Consumer<Boolean>> permit = guard.acquire();
            if (permit.isPresent()) {
                boolean success = call();
                permit.get().accept(success);
                status = success ? ANSWERED : FAILED;
            }
            ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN).putInt(LIMIT, guard.limit());
            frame[STATUS] = status;
        }

        public void run() {
            try (client) {
                client.setTcpNoDelay(true);
                DataInputStream fromClient = new DataInputStream(client.getInputStream());
                for (;;) {
                    fromClient.readFully(frame);
                    answer();
                    client.getOutputStream().write(frame);
                }
            } catch (IOException end) {
                // the clients are done
            }
        }
    }

    public static void main(String[] arguments) throws IOException {
        Guard guard = arguments[1].equals("breaker") ? breaker() : gradient2();
        Gate gate = new Gate(guard, Integer.parseInt(arguments[0]), Integer.parseInt(arguments[2]));
        ServerSocket listener = new ServerSocket(0, 4096, InetAddress.getLoopbackAddress());
        System.err.println("listening: frames 127.0.0.1:" + listener.getLocalPort() + " ");
        for (;;) new Thread(null, gate.new Connection(listener.accept()), "client", STACK).start();
    }
}
