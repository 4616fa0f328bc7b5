// The tests of the public suite, against the server at the address that the environment has.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({ baseUrl: process.env.SERVER, longPollTimeoutMs: 3000 });
