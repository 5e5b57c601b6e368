import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.cep.configuration.SharedBufferCacheConfig;
import org.apache.flink.cep.nfa.NFA;
import org.apache.flink.cep.nfa.NFAState;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.nfa.compiler.NFACompiler;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBuffer;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferAccessor;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.WithinType;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;

/**
 * Answers cases of FlinkCEP: its automaton with its buffer, without a cluster. `peers.py` describes the lines.
 *
 * <p>A query has parts with tabs between them: what happens after a match, the window and the gap in milliseconds or
 * nothing, and the steps. The cells of a step have "|" between them: how it follows, its name, the calls for its
 * quantifier, its condition, and until.
 */
public final class Flink {
    record Event(int place, String type, int x, long time) {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String text = input.readLine(); text != null; text = input.readLine()) {
            List<Event> events = new ArrayList<>();
            for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) {
                String[] cells = line.split("\t", -1);
                long time = Long.parseLong(cells[1]);
                events.add(new Event(events.size(), cells[2], Integer.parseInt(cells[3]), time));
            }
            StringBuilder answer = new StringBuilder();
            try {
                run(text.split("\t", -1), events, answer);
                System.out.print(answer.append(".\n"));
            } catch (Exception error) {
                System.out.println("!" + error.toString().replaceAll("\\s+", " "));
            }
            System.out.flush();
        }
        System.exit(0);
    }

    private static void run(String[] parts, List<Event> events, StringBuilder answer) throws Exception {
        AfterMatchSkipStrategy skip = skip(parts[0].split(" "));
        NFA<Event> nfa = NFACompiler.<Event>compileFactory(pattern(parts, skip), false).createNFA();
        nfa.open(proxy(RuntimeContext.class, (name, given) -> null), null);
        NFAState state = nfa.createInitialNFAState();
        SharedBuffer<Event> buffer = new SharedBuffer<>(
                store(), Flink.<TypeSerializer<Event>>cast(StringSerializer.INSTANCE),
                new SharedBufferCacheConfig(100, 100, Duration.ofDays(1)));
        long before = Long.MIN_VALUE;
        for (Event event : events) {
            try (SharedBufferAccessor<Event> accessor = buffer.getAccessor()) {
                // Flink moves its clock once for events of one time.
                if (event.time != before) report(nfa.advanceTime(accessor, state, event.time, skip).f0, answer);
                before = event.time;
                report(nfa.process(accessor, state, event, event.time, skip, () -> 0L), answer);
            }
        }
        try (SharedBufferAccessor<Event> accessor = buffer.getAccessor()) {
            report(nfa.advanceTime(accessor, state, Long.MAX_VALUE, skip).f0, answer);
        }
        buffer.releaseCacheStatisticsTimer();
    }

    private static void report(Collection<Map<String, List<Event>>> matches, StringBuilder answer) {
        for (Map<String, List<Event>> match : matches) {
            String separator = "";
            for (Map.Entry<String, List<Event>> step : match.entrySet()) {
                for (Event event : step.getValue()) {
                    answer.append(separator).append(step.getKey()).append(' ').append(event.place);
                    separator = "\t";
                }
            }
            answer.append('\n');
        }
    }

    private static AfterMatchSkipStrategy skip(String[] words) {
        switch (words[0]) {
            case "to_next": return AfterMatchSkipStrategy.skipToNext();
            case "past_last": return AfterMatchSkipStrategy.skipPastLastEvent();
            case "to_first": return AfterMatchSkipStrategy.skipToFirst(words[1]);
            case "to_last": return AfterMatchSkipStrategy.skipToLast(words[1]);
            default: return AfterMatchSkipStrategy.noSkip();
        }
    }

    private static Pattern<Event, ?> pattern(String[] parts, AfterMatchSkipStrategy skip) {
        Pattern<Event, Event> pattern = null;
        for (int i = 3; i < parts.length; i++) {
            String[] cells = parts[i].split("\\|", -1);
            switch (cells[0]) {
                case "next": pattern = pattern.next(cells[1]); break;
                case "followedBy": pattern = pattern.followedBy(cells[1]); break;
                case "followedByAny": pattern = pattern.followedByAny(cells[1]); break;
                case "notNext": pattern = pattern.notNext(cells[1]); break;
                case "notFollowedBy": pattern = pattern.notFollowedBy(cells[1]); break;
                default: pattern = Pattern.begin(cells[1], skip);
            }
            pattern = pattern.where(new Condition(cells[3]));
            for (String call : cells[2].isEmpty() ? new String[0] : cells[2].split(" ")) {
                String[] words = call.split(",");
                switch (words[0]) {
                    case "oneOrMore": pattern = pattern.oneOrMore(); break;
                    case "timesOrMore": pattern = pattern.timesOrMore(Integer.parseInt(words[1])); break;
                    case "times":
                        pattern = pattern.times(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                        break;
                    case "consecutive": pattern = pattern.consecutive(); break;
                    case "allowCombinations": pattern = pattern.allowCombinations(); break;
                    case "greedy": pattern = pattern.greedy(); break;
                    case "optional": pattern = pattern.optional(); break;
                    default: throw new IllegalArgumentException(call);
                }
            }
            if (!cells[4].isEmpty()) pattern = pattern.until(new Condition(cells[4]));
        }
        if (!parts[1].isEmpty()) pattern = pattern.within(Duration.ofMillis(Long.parseLong(parts[1])));
        if (!parts[2].isEmpty()) {
            pattern = pattern.within(Duration.ofMillis(Long.parseLong(parts[2])), WithinType.PREVIOUS_AND_CURRENT);
        }
        return pattern;
    }

    /** Comparisons with "&" between them: a type, or x with a number or with that of the first event of a step. */
    private static final class Condition extends IterativeCondition<Event> {
        private final String[] parts;

        Condition(String text) {
            parts = text.isEmpty() ? new String[0] : text.split("&");
        }

        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            for (String part : parts) {
                String[] words = part.split(" ");
                if (words[0].equals("type") ? !holds(words[1], event.type.compareTo(words[2]))
                        : !compares(words, event, context)) return false;
            }
            return true;
        }

        private static boolean compares(String[] words, Event event, Context<Event> context) throws Exception {
            if (!words[2].startsWith("@")) return holds(words[1], event.x - Integer.parseInt(words[2]));
            Iterator<Event> taken = context.getEventsForPattern(words[2].substring(1)).iterator();
            return taken.hasNext() && holds(words[1], event.x - taken.next().x);
        }

        private static boolean holds(String sign, int order) {
            switch (sign) {
                case "<": return order < 0;
                case "<=": return order <= 0;
                case ">": return order > 0;
                case ">=": return order >= 0;
                case "==": return order == 0;
                default: return order != 0;
            }
        }
    }

    /** States that live in maps. */
    private static KeyedStateStore store() {
        return proxy(KeyedStateStore.class, (name, given) -> {
            if (name.equals("getMapState")) return mapState(new HashMap<>());
            if (name.equals("getState")) return valueState(new Object[1]);
            throw new UnsupportedOperationException(name);
        });
    }

    private static MapState<?, ?> mapState(Map<Object, Object> map) {
        return proxy(MapState.class, (name, given) -> {
            switch (name) {
                case "get": return map.get(given[0]);
                case "put": return map.put(given[0], given[1]);
                case "putAll": map.putAll((Map<?, ?>) given[0]); return null;
                case "remove": return map.remove(given[0]);
                case "contains": return map.containsKey(given[0]);
                case "entries": return map.entrySet();
                case "keys": return map.keySet();
                case "values": return map.values();
                case "iterator": return map.entrySet().iterator();
                case "isEmpty": return map.isEmpty();
                default: map.clear(); return null;
            }
        });
    }

    private static ValueState<?> valueState(Object[] cell) {
        return proxy(ValueState.class, (name, given) -> {
            if (name.equals("value")) return cell[0];
            cell[0] = name.equals("update") ? given[0] : null;
            return null;
        });
    }

    private interface Call {
        Object of(String name, Object[] given) throws Exception;
    }

    private static <T> T proxy(Class<T> kind, Call call) {
        return kind.cast(Proxy.newProxyInstance(
                Flink.class.getClassLoader(), new Class<?>[] {kind},
                (self, method, given) -> {
                    Object result = call.of(method.getName(), given);
                    return method.getReturnType() == void.class ? null : result;
                }));
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }
}
