/* A node on a complete network that reduces float32 numbers: the root adds what comes in from the last port to the first,
   and its own contribution at the end. One message of one segment. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64, MOST_NUMBERS = 4096 };

static long number_of(const char *line, const char *key)
{
    const char *found = strstr(line, key);
    return found ? strtol(found + strlen(key), NULL, 10) : -1;
}

/* Reads the numbers of a list up to its closing bracket, and returns their count. */
static int read_numbers(const char *text, float *numbers)
{
    int count = 0;
    char *end;
    while (count < MOST_NUMBERS) {
        numbers[count] = strtof(text, &end);
        if (end == text)
            break;
        count++;
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

/* Returns the port whose link leads to a rank. */
static int port_to(const char *line, long rank)
{
    char link[48];
    int port = 0;
    do
        snprintf(link, sizeof link, "{\"port\":%d,\"rank\":%ld,", port++, rank);
    while (!strstr(line, link) && port < MOST_RANKS);
    return port - 1;
}

static void write_numbers(const float *numbers, int count)
{
    printf("\"values\":[");
    for (int place = 0; place < count; place++)
        printf("%s%.9g", place ? "," : "", numbers[place]);
    printf("]}");
}

int main(void)
{
    static float own[MOST_NUMBERS], came[MOST_RANKS][MOST_NUMBERS];
    char *line = NULL;
    size_t size = 0;
    int count = 0;
    while (getline(&line, &size, stdin) > 0) {
        if (strstr(line, "\"type\":\"init\"")) {
            long me = number_of(line, "\"rank\":"), root = number_of(line, "\"source\":");
            const char *contributions = strstr(line, "\"contributions\":");
            count = read_numbers(strstr(contributions, "\"values\":[") + 10, own);
            printf("{\"sends\":[");
            if (me != root) {
                printf("{\"step\":1,\"port\":%d,\"segment\":[%ld,%ld,0,0],", port_to(line, root), me, root);
                write_numbers(own, count);
            }
            puts("]}");
        } else {
            int arrivals = 0;
            for (char *at = strstr(line, "\"values\":[["); at && arrivals < MOST_RANKS; at = strstr(at + 1, "\"values\":[["))
                read_numbers(at + 11, came[arrivals++]);
            float *total = came[arrivals - 1];
            for (int other = arrivals - 2; other >= -1; other--)
                for (int place = 0; place < count; place++)
                    total[place] += other < 0 ? own[place] : came[other][place];
            printf("{\"sends\":[],\"results\":[{\"owner\":0,\"segment\":0,");
            write_numbers(total, count);
            puts("]}");
        }
        fflush(stdout);
    }
    free(line);
    return 0;
}
