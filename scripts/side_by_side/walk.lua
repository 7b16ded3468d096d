-- Makes wrk request the paths of a list in order, repeatedly. Thread N uses the file SIDE_BY_SIDE_LIST.N with one path
-- per line; its connections share the list, so the next path is requested as soon as any connection is free. Without
-- the variable, the path of the command line is requested, and Lua is not called per request.
local threads = 0

function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end

function init(arguments)
    if os.getenv("SIDE_BY_SIDE_LIST") == nil then
        return
    end
    local requests = {}
    for path in io.lines(os.getenv("SIDE_BY_SIDE_LIST") .. "." .. number) do
        requests[#requests + 1] = wrk.format("GET", path)
    end
    local last = 0
    function request()
        last = last % #requests + 1
        return requests[last]
    end
end

function done(summary, latency, requests)
    local errors = summary.errors
    local lost = errors.connect + errors.read + errors.write + errors.timeout
    io.write(string.format('\n{"requests": %d, "microseconds": %d, "bytes": %d, "refused": %d, "lost": %d}\n',
        summary.requests, summary.duration, summary.bytes, errors.status, lost))
end
