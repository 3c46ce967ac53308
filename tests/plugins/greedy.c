/* A node of the greedy broadcast tree on the star graph S_n, n <= 9. Each line on standard input is one compact JSON
 * object; the answer is one line. A node knows its relative label and nothing else. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long number_of(const char *line, const char *key) {
    const char *found = strstr(line, key);
    return found ? strtol(found + strlen(key), NULL, 10) : 0;
}

/* Link type t leads to a child if symbol t is home, or if it is 1, the first symbol is not t and 2..t-1 are home. */
static int find_children(const char *label, int *ports) {
    int count = 0, home_so_far = 1, first = label[0] - '0';
    for (int position = 2; label[position - 1]; position++) {
        int symbol = label[position - 1] - '0';
        if (symbol == position || (symbol == 1 && first != position && home_so_far))
            ports[count++] = position - 2;
        home_so_far = home_so_far && symbol == position;
    }
    return count;
}

int main(void) {
    char *line = NULL, label[16] = "";
    size_t room = 0;
    int ports[16], children = 0;
    while (getline(&line, &room, stdin) > 0) {
        const char *comma = "";
        printf("{\"sends\":[");
        if (strstr(line, "\"type\":\"init\"")) {
            sscanf(strstr(line, "\"relative_label\":\"") + 18, "%15[0-9]", label);
            children = find_children(label, ports);
            if (strstr(line, "\"targets\":[-1]"))
                for (long segment = 0; segment < number_of(line, "\"numbers\":"); segment++)
                    for (int child = 0; child < children; child++, comma = ",")
                        printf("%s{\"step\":%ld,\"port\":%d,\"segment\":[%ld,-1,0,%ld]}", comma, segment + 1, ports[child],
                               number_of(line, "\"rank\":"), segment);
        } else {
            long step = number_of(line, "\"step\":");
            /* The arrivals of a tree come over one port: its segments are [o,t,tree,n],[o,t,tree,n],.. */
            char *open = strstr(line, "\"segments\":[[");
            for (open = open ? open + 12 : NULL; open && *open == '['; open = strchr(open, ']') + 2)
                for (int child = 0; child < children; child++, comma = ",")
                    printf("%s{\"step\":%ld,\"port\":%d,\"segment\":%.*s}", comma, step + 1, ports[child],
                           (int)(strchr(open, ']') + 1 - open), open);
        }
        puts("]}");
        fflush(stdout);
    }
    free(line);
    return 0;
}
