// Command client_go does with client-go what //integration/kube_bench measures, in the way that its
// documentation advises: protobuf, shared informers, no rate limit of its own.
//
//	client_go informer KUBECONFIG            follows Nodes and Pods until it has them all
//	client_go bind KUBECONFIG NAMESPACE PREFIX COUNT CONCURRENCY NODE
//	    creates COUNT Pods PREFIX-<i>, then binds each to NODE
//	client_go events KUBECONFIG NAMESPACE ROUND COUNT
//	    follows Pods until a handler has seen COUNT of them with the annotation round=ROUND
//	client_go await KUBECONFIG NAMESPACE NAME
//	    follows Pods until a handler sees NAME
//	client_go lead KUBECONFIG NAMESPACE NAME IDENTITY LEASE DEADLINE RETRY
//	    competes for a Lease, which //integration/kube sets against our leader election
//
// All but the last print one line of JSON: seconds of wall and CPU time, and its resident memory in
// bytes; events and await print {"synced":true} before, and await the second of the wall clock at
// which it saw it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type use struct {
	wall time.Time
	cpu  float64
}

func now() use {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return use{time.Now(), seconds(usage.Utime) + seconds(usage.Stime)}
}

func (u use) since(name string, into map[string]float64) {
	later := now()
	into[name+"_wall_s"] = later.wall.Sub(u.wall).Seconds()
	into[name+"_cpu_s"] = later.cpu - u.cpu
}

// In bytes, of a line of /proc/self/status.
func memory(field string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, field+":") {
			kib, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				panic(err)
			}
			return kib * 1024
		}
	}
	panic("no " + field)
}

func informer(client kubernetes.Interface) (map[string]float64, error) {
	told := map[string]float64{}
	start := now()
	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Informer()
	pods := factory.Core().V1().Pods().Informer()
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return nil, fmt.Errorf("%v did not sync", kind)
		}
	}
	start.since("sync", told)
	told["objects"] = float64(len(nodes.GetStore().ListKeys()) + len(pods.GetStore().ListKeys()))
	told["rss_bytes"] = memory("VmRSS")
	told["peak_rss_bytes"] = memory("VmHWM")
	return told, nil
}

func each(count, concurrency int, do func(i int) error) error {
	indexes := make(chan int)
	errs := make(chan error, concurrency)
	var group sync.WaitGroup
	for w := 0; w < concurrency; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			var first error
			for i := range indexes {
				if err := do(i); err != nil && first == nil {
					first = err
				}
			}
			errs <- first
		}()
	}
	for i := 0; i < count; i++ {
		indexes <- i
	}
	close(indexes)
	group.Wait()
	for w := 0; w < concurrency; w++ {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func bind(client kubernetes.Interface, args []string) (map[string]float64, error) {
	namespace, prefix, node := args[0], args[1], args[4]
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return nil, err
	}
	concurrency, err := strconv.Atoi(args[3])
	if err != nil {
		return nil, err
	}
	pods := client.CoreV1().Pods(namespace)
	ctx := context.Background()
	told := map[string]float64{"count": float64(count)}
	uids := make([]types.UID, count)
	start := now()
	err = each(count, concurrency, func(i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)},
			Spec: corev1.PodSpec{
				SchedulerName: "none",
				Containers:    []corev1.Container{{Name: "c", Image: "i"}},
			},
		}
		created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if err == nil {
			uids[i] = created.UID
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	start.since("create", told)
	start = now()
	err = each(count, concurrency, func(i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i)
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uids[i]},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}
		return pods.Bind(ctx, binding, metav1.CreateOptions{})
	})
	if err != nil {
		return nil, err
	}
	start.since("bind", told)
	return told, nil
}

// Follows Pods, says so once a handler was told of them all, and returns when seen says that a Pod is the last.
func followUntil(client kubernetes.Interface, seen func(*corev1.Pod) bool, synced func()) error {
	done := make(chan struct{})
	var once sync.Once
	look := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok && seen(pod) {
			once.Do(func() { close(done) })
		}
	}
	stop := make(chan struct{})
	defer close(stop)
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	registration, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, object any) { look(object) },
	})
	if err != nil {
		return err
	}
	factory.Start(stop)
	cache.WaitForCacheSync(stop, registration.HasSynced)
	synced()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]bool{"synced": true}); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-time.After(5 * time.Minute):
		return fmt.Errorf("what it waits for has not come in 5 min")
	}
}

func events(client kubernetes.Interface, args []string) (map[string]float64, error) {
	namespace, round := args[0], args[1]
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return nil, err
	}
	told := map[string]float64{"count": float64(count)}
	var start use
	bytes := 0
	err = followUntil(client, func(pod *corev1.Pod) bool {
		if pod.Namespace != namespace || pod.Annotations["round"] != round {
			return false
		}
		bytes += len(pod.Spec.NodeName) + len(pod.Status.Phase)
		count--
		return count == 0
	}, func() { start = now() })
	if err != nil {
		return nil, err
	}
	start.since("events", told)
	told["read_bytes"] = float64(bytes)
	return told, nil
}

func await(client kubernetes.Interface, args []string) (map[string]float64, error) {
	err := followUntil(client, func(pod *corev1.Pod) bool {
		return pod.Namespace == args[0] && pod.Name == args[1]
	}, func() {})
	if err != nil {
		return nil, err
	}
	return map[string]float64{"seen_at_s": float64(time.Now().UnixNano()) / 1e9}, nil
}

func run() error {
	if len(os.Args) < 3 {
		return fmt.Errorf("usage: client_go informer|bind|events|await|lead KUBECONFIG …")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[2])
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if os.Args[1] == "lead" && len(os.Args) == 9 {
		return lead(client, os.Args[3:])
	}
	var told map[string]float64
	switch {
	case os.Args[1] == "informer":
		told, err = informer(client)
	case os.Args[1] == "bind" && len(os.Args) == 8:
		told, err = bind(client, os.Args[3:])
	case os.Args[1] == "events" && len(os.Args) == 6:
		told, err = events(client, os.Args[3:])
	case os.Args[1] == "await" && len(os.Args) == 5:
		told, err = await(client, os.Args[3:])
	default:
		err = fmt.Errorf("no such command: %v", os.Args[1:])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "client_go:", err)
		os.Exit(1)
	}
}
