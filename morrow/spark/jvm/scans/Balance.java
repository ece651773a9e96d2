package morrow.spark.jvm.scans;

import java.util.Arrays;
import java.util.PriorityQueue;

/** The order in which files are distributed among tasks. Each task reads the same number of adjacent files, one after another. */
final class Balance {
    private Balance() {}

    /** Orders files so that tasks have about the same bytes: the largest file goes to the task with the fewest bytes that has room. */
    static int[] order(long[] sizes, int tasks) {
        long[][] files = new long[sizes.length][]; // negative size, number
        for (int i = 0; i < sizes.length; i++) {
            files[i] = new long[] {-sizes[i], i};
        }
        Arrays.sort(files, new Least());
        PriorityQueue open = new PriorityQueue(Math.max(1, tasks), new Least());
        for (int i = 0; i < tasks; i++) { // bytes, task, position of its next file; Spark cuts the list into runs
            open.add(new long[] {0L, i, (long) i * sizes.length / tasks});
        }
        int[] order = new int[sizes.length];
        for (int i = 0; i < files.length; i++) {
            long[] task = (long[]) open.poll();
            order[(int) task[2]] = (int) files[i][1];
            task[0] -= files[i][0];
            task[2] += 1;
            if (task[2] < (task[1] + 1) * sizes.length / tasks) {
                open.add(task);
            }
        }
        return order;
    }

    static final class Least implements java.util.Comparator {
        public int compare(Object one, Object other) {
            long[] first = (long[]) one;
            long[] second = (long[]) other;
            return first[0] != second[0] ? Long.compare(first[0], second[0]) : Long.compare(first[1], second[1]);
        }
    }
}
